"""Why a mail server can't be used, in words: what failed, why, and what to do."""

import imaplib
import socket
import ssl
from collections.abc import Iterator
from typing import Any, Final, Literal, cast

import aiosmtplib
import imap_tools

from nexus.channels.adapter import THIS_MACHINE, DeliveryError
from nexus.channels.email.mailbox import Login, Server
from nexus.text import join_lines

Protocol = Literal["IMAP", "SMTP"]
_PORTS: Final = {"IMAP": "993 (TLS) or 143 (STARTTLS)", "SMTP": "465 (TLS) or 587 (STARTTLS)"}
_WITHOUT: Final = "On this machine it also works without encryption: choose that, or set `tls = false`."
_NO_TLS: Final = ("TLS not supported", "Couldn't establish TLS session")
# How OpenSSL calls a first answer that is not TLS.
_ANSWERS_WITHOUT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"})
_UNTRUSTED: Final = "The certificate isn't signed by a trusted authority."
_OTHER_NAME: Final = "Use the name in the server's certificate, which your provider's help pages give."
# What to do, by OpenSSL's X509_V_ERR codes.
_CERTIFICATES: Final = {
    10: "The certificate has expired; the server's operator must renew it.",
    **dict.fromkeys((18, 19, 20, 21), _UNTRUSTED),
    **dict.fromkeys((62, 64), _OTHER_NAME),
}


def explain(error: Exception, server: Server, login: Login, protocol: Protocol) -> DeliveryError:
    """The error to raise for what a library raised while it connected or logged in."""
    named = f"the {protocol} server {server.host}"
    unreachable = f"Can't reach {named}"
    ports = f"Check the port: {protocol} servers use {_PORTS[protocol]}."
    encrypts = f"{ports} {_WITHOUT}" if server.host in THIS_MACHINE else ports
    for each in _walk_causes(error):
        match each:
            case socket.gaierror():
                why = "the host name can't be resolved"
                return DeliveryError(
                    f"{unreachable}: {why}", hint="Check the server's name, and your network connection."
                )
            case ConnectionRefusedError():
                return DeliveryError(f"{unreachable}: port {server.port} refused the connection", hint=ports)
            case ssl.SSLCertVerificationError():
                return DeliveryError(
                    f"Can't trust {named}: {each.verify_message or each}",
                    hint=_CERTIFICATES.get(
                        each.verify_code, "Ask the server's operator about its certificate."
                    ),
                )
            case ssl.SSLError() if each.reason not in _ANSWERS_WITHOUT_TLS:
                why = (each.reason or str(each)).replace("_", " ").lower()
                return DeliveryError(f"The TLS handshake with {named} failed: {why}", hint=ports)
            case ssl.SSLError():
                return DeliveryError(
                    f"Can't encrypt the connection: {named} has no TLS on port {server.port}", hint=encrypts
                )
            case aiosmtplib.SMTPConnectResponseError():
                return DeliveryError(
                    f"The {protocol} server {server.host} refused the connection: {_server_words(each)}",
                    hint="It may refuse mail programs on your network: ask your provider.",
                )
            case TimeoutError() | aiosmtplib.SMTPTimeoutError():
                return DeliveryError(
                    f"{unreachable}: no answer on port {server.port}",
                    hint=f"{ports} A firewall may block it.",
                )
            case imap_tools.MailboxFolderSelectError() | imap_tools.MailboxFolderStatusError():
                return DeliveryError(
                    f"Can't open the mail folder on {named}: {_server_words(each)}", hint="Check `folder`."
                )
            case imaplib.IMAP4.error() if any(said in str(each) for said in _NO_TLS):
                return DeliveryError(
                    f"Can't encrypt the connection: {named} has no TLS on port {server.port}", hint=encrypts
                )
            case imaplib.IMAP4.abort():
                continue
            case (
                aiosmtplib.SMTPAuthenticationError() | imap_tools.MailboxLoginError() | imaplib.IMAP4.error()
            ):
                return _explain_refusal(each, login, named)
            case _:
                continue
    return DeliveryError(f"{unreachable} on port {server.port}: {error}")


def _explain_refusal(error: Exception, login: Login, named: str) -> DeliveryError:
    if login.token:
        given, hint = "access token", "Check `token_command`, and that the account allows mail programs."
    else:
        given = "password"
        hint = "Check the password. An account with two-step verification needs an app password."
    return DeliveryError(
        f"Can't log in as {login.user}: {named} refused the {given} ({_server_words(error)})", hint=hint
    )


def _server_words(error: Exception) -> str:
    """What the server said."""
    said: Any = error.args[0] if error.args else ""
    if isinstance(error, imap_tools.UnexpectedCommandStatusError):
        said = b" ".join(cast("Any", error).command_result[1])
    elif isinstance(error, aiosmtplib.SMTPResponseException):
        said = f"{error.code} {error.message}"
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    return join_lines(text)


def _walk_causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it came from: libraries wrap those of the system."""
    while error is not None:
        yield error
        error = error.__cause__
