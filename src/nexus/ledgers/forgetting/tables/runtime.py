"""What forgetting does to the runtime ledger: the work on what goes, goes; what it cost stays."""

from nexus.ledgers.forgetting.rules import Ref, Table, Text, Then, Time, typed

_HAS_REQUEST = "request_id IN (SELECT id FROM runtime.requests)"
_MEMORIES = {
    "event": "events",
    "fact": "facts",
    "observation": "analysis_runs",
    "mental_model": "mental_models",
    "episode": "episodes",
    "entity": "entities",
}

TABLES = (
    Table("runtime", "schema_migrations", kept="versions of the schema: no content"),
    Table(
        "runtime",
        "automations",
        refs=(
            Ref("created_by_thread", "threads", Then.CLEAR),
            Ref("created_by_session", "agent_sessions", Then.CLEAR),
        ),
        texts=(
            Text("name", Then.TELL),
            Text("description", Then.TELL),
            Text("triggers_json", Then.TELL),
            Text("config_json", Then.TELL),
            Text("last_error", Then.CLEAR),
            Text("disabled_reason", Then.CLEAR),
        ),
    ),
    Table(
        "runtime",
        "requests",
        refs=(
            Ref("parent_request_id", "requests"),
            Ref("root_request_id", "requests"),
            Ref("event_id", "events"),
            Ref("thread_id", "threads"),
            Ref("principal_id", "entities"),
        ),
        texts=(
            Text("session_label"),
            Text("enrichment_json", Then.CLEAR),
            Text("error", Then.CLEAR),
            Text("access_json", Then.CLEAR, blank="{}"),
        ),
        time=Time("created_at", unless="event_id IN (SELECT id FROM events.events)"),
    ),
    Table(
        "runtime",
        "executions",
        refs=(
            Ref("request_id", "requests"),
            Ref("root_request_id", "requests"),
            Ref("taken_by", "executions", Then.CLEAR),
        ),
        texts=(
            Text("session_label"),
            Text("input_json", Then.CLEAR, blank="null"),
            Text("result_json", Then.CLEAR),
            Text("error", Then.CLEAR),
            Text("waiting_for", Then.CLEAR),
        ),
    ),
    Table(
        "runtime",
        "steps",
        key=("execution_id", "name", "number"),
        refs=(Ref("execution_id", "executions"),),
        texts=(Text("name"), Text("outcome")),
    ),
    Table(
        "runtime",
        "dispatches",
        refs=(
            Ref("parent_request_id", "requests"),
            Ref("root_request_id", "requests"),
            Ref("worker_request_id", "requests"),
            Ref("parent_execution_id", "executions"),
            Ref("execution_id", "executions"),
            # Without the run that got the result, nobody could tell any more that it was delivered.
            Ref("delivered_to", "executions"),
        ),
        texts=(
            Text("parent_session_label"),
            Text("worker_session_label"),
            Text("task", Then.CLEAR, blank=""),
        ),
    ),
    Table(
        "runtime",
        "invocations",
        refs=(Ref("request_id", "requests"), Ref("root_request_id", "requests")),
        texts=(
            Text("result_json", Then.CLEAR),
            Text("error", Then.CLEAR),
            Text("input_json", Then.CLEAR),
            Text("output", Then.CLEAR),
        ),
        time=Time("created_at", unless=_HAS_REQUEST),
    ),
    Table(
        "runtime",
        "injections",
        refs=(
            Ref("request_id", "requests"),
            Ref("root_request_id", "requests"),
            Ref("execution_id", "executions", Then.CLEAR),
            Ref("invocation_id", "invocations", implied=True),
            # Its words stand wherever it was told: in the work on the task, or in the run that chose.
            *typed("item_id", "item_kind", Then.OWNER, when="injected", owner="request_id", **_MEMORIES),
            *typed(
                "item_id", "item_kind", Then.OWNER, when="NOT injected", owner="execution_id", **_MEMORIES
            ),
        ),
        texts=(Text("why", Then.CLEAR, blank=""),),
        time=Time("created_at", unless=_HAS_REQUEST),
    ),
    Table("runtime", "usage", kept="tokens and money: no content, and the bill stays right"),
    Table("runtime", "usage_days", kept="sums of usage, which stays"),
    Table("runtime", "usage_roots", kept="sums of usage, which stays"),
    Table("runtime", "budget_hits", kept="which budget was used up, and by how much: no content"),
    Table("runtime", "reservations", kept="what requests under way may cost: no content, and gone with them"),
    Table("runtime", "push_subscriptions", kept="addresses and keys of the owner's browsers: no content"),
    Table("runtime", "push_sent", kept="ids of what browsers were notified of: no content"),
    Table(
        "runtime",
        "approvals",
        refs=(
            Ref("request_id", "requests"),
            Ref("root_request_id", "requests"),
            Ref("execution_id", "executions"),
        ),
        texts=(
            Text("session_label"),
            Text("tool"),
            Text("arguments_json", Then.CLEAR, blank="{}"),
            Text("pattern", Then.CLEAR),
            Text("reason", Then.CLEAR, blank=""),
            Text("tainted_by", Then.CLEAR, blank=""),
            Text("preview", Then.CLEAR, blank=""),
        ),
    ),
    Table("runtime", "models", kept="what models can do: no content"),
    Table(
        "runtime",
        "channels",
        key=("name",),
        texts=(Text("reason", Then.CLEAR), Text("cursor_json", Then.TELL)),
    ),
    Table(
        "runtime",
        "deliveries",
        key=("event_id",),
        refs=(Ref("event_id", "events"), Ref("thread_id", "threads")),
        texts=(Text("external_id", Then.CLEAR), Text("error", Then.CLEAR)),
    ),
    # Nothing of it was taken in, so nothing but its own words says whom it is about.
    Table(
        "runtime",
        "set_aside",
        texts=(Text("external_id"), Text("sender"), Text("body_json"), Text("reason", Then.CLEAR, blank="")),
        time=Time("created_at"),
    ),
    Table(
        "runtime",
        "spans",
        refs=(
            Ref("request_id", "requests"),
            Ref("root_request_id", "requests"),
            Ref("parent_span_id", "spans", implied=True),
            Ref("execution_id", "executions", implied=True),
        ),
        texts=(Text("name"), Text("attributes_json", Then.CLEAR, blank="{}")),
        time=Time("started_at", unless=_HAS_REQUEST),
    ),
    Table("runtime", "forgets", kept="the record of what was forgotten: ids and counts"),
    Table("runtime", "forget_items", kept="empty but for a forget under way"),
)
