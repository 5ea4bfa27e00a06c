"""What a request cost: by the owner's own price of the model, else by the public list of prices."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from nexus.config import BudgetsConfig, Config, PriceConfig, ProviderConfig

if TYPE_CHECKING:
    from pydantic_ai.usage import RequestUsage

_MICRO: Final = Decimal(1_000_000)
_OTHER_USES: Final = re.compile(
    r"audio|embed|image|instruct|moderation|preview|realtime|search|transcribe|tts|vision"
)
_ADDRESSES: Final = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
    "google": "https://generativelanguage.googleapis.com",
    "mistral": "https://api.mistral.ai",
    "groq": "https://api.groq.com",
    "openrouter": "https://openrouter.ai/api/v1",
    "bedrock": "https://bedrock-runtime.us-east-1.amazonaws.com",
}
"""Where a provider is that has no address in the settings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """What a request would use. The library's class would import the library, as another thread may do."""

    input_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int


def cost_microusd(
    usage: "RequestUsage | Tokens",
    *,
    model: str,
    base_url: str,
    price: PriceConfig | None = None,
    is_local: bool = False,
) -> int | None:
    """The price in millionths of a dollar, rounded; 0 for a local server, None where nobody knows it.

    The address tells who sends the bill. What the settings call the provider does not: a server of one's own
    may go by any name.
    """
    if price is not None:
        # So many dollars for a million are so many millionths for one.
        fresh = usage.input_tokens - usage.cache_read_tokens
        used = (fresh, usage.cache_read_tokens, usage.output_tokens)
        prices = (price.fresh_usd, price.cached_usd, price.output_usd)
        return round(sum(tokens * each for tokens, each in zip(used, prices, strict=True)))
    from genai_prices import Usage, calc_price

    listed = Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
    )
    try:
        return round(calc_price(listed, model, provider_api_url=base_url).total_price * _MICRO)
    except LookupError:
        return 0 if is_local else None


def estimate_microusd(config: Config, name: str, *, input_tokens: int, output_tokens: int) -> int | None:
    """What so many tokens of a model cost, by the settings or the list of prices; None if unknown."""
    provider, _, model = name.partition("/")
    known = config.providers.get(provider, ProviderConfig())
    return cost_microusd(
        Tokens(input_tokens=input_tokens, output_tokens=output_tokens),
        model=model,
        base_url=_address(known),
        price=config.prices.get(name),
        is_local=known.is_local,
    )


def describe_price(config: Config, name: str) -> str:
    """Say what a million tokens of a model cost; empty if nobody knows."""
    found = [
        estimate_microusd(config, name, input_tokens=1_000 * is_input, output_tokens=1_000 * (not is_input))
        for is_input in (True, False)
    ]
    read, written = (None if each is None else each / 1_000 for each in found)
    if read is None or written is None:
        return ""
    return f"${read:g} in, ${written:g} out per million tokens" if read or written else "free"


def list_priced(provider: ProviderConfig) -> list[str]:
    """List the text models of a provider in the public price list, by name."""
    from genai_prices.data_snapshot import get_snapshot

    address = _address(provider)
    for each in get_snapshot().providers if address else ():
        if re.match(each.api_pattern, address):
            return [
                model.id
                for model in each.models
                if model.context_window and not _OTHER_USES.search(model.id) and not model.deprecated
            ]
    return []


def budgets_in_money(limits: BudgetsConfig) -> list[str]:
    """The budgets in US dollars that are set without the same in tokens, by their names in [budgets]."""
    return [
        each.name
        for each in fields(limits)
        if each.name.endswith("_usd")
        and getattr(limits, each.name)
        and not getattr(limits, f"{each.name.removesuffix('_usd')}_tokens")
    ]


def list_unpriced(config: Config) -> Iterator[str]:
    """The models that the settings name, that a budget in money is set for, and whose price nobody knows.

    A model on a local server is free.
    """
    if not budgets_in_money(config.budgets):
        return
    for name in sorted(config.models.roles.keys() - config.prices.keys()):
        provider, _, model = name.partition("/")
        known = config.providers.get(provider)
        if known is None or known.is_local:
            continue
        from genai_prices import Usage, calc_price

        try:
            calc_price(Usage(input_tokens=1), model, provider_api_url=_address(known))
        except LookupError:
            yield name


def _address(provider: ProviderConfig) -> str:
    return provider.base_url or _ADDRESSES.get(provider.kind, "")
