"""Answers as mail. They are marked as automatic, so that no other program answers them."""

from email.message import EmailMessage
from email.utils import formatdate
from typing import Final

import aiosmtplib

from nexus.channels import rendering
from nexus.channels.adapter import Delivery, DeliveryError
from nexus.channels.email.failures import explain
from nexus.channels.email.mailbox import Login, Server

_TIMEOUT_S: Final = 30.0
_PERMANENT: Final = 500


def compose_mail(delivery: Delivery, address: str) -> EmailMessage:
    """The mail of a delivery. Its Message-ID is the same for every attempt."""
    to, root = _read_place(delivery)
    mail = EmailMessage()
    mail["From"] = address
    mail["To"] = to
    mail["Subject"] = f"Re: {delivery.title}" if delivery.title else "Your message"
    mail["Date"] = formatdate()
    mail["Message-ID"] = f"<{delivery.key}@{address.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-replied"
    mail["X-Auto-Response-Suppress"] = "All"
    answered = delivery.reply_to or root
    mail["In-Reply-To"] = f"<{answered}>"
    mail["References"] = " ".join(f"<{each}>" for each in dict.fromkeys([root, answered]))
    mail.set_content(delivery.text)
    mail.add_alternative(rendering.render_html(delivery.text), subtype="html")
    for file in delivery.files:
        main, _, sub = file.media_type.partition("/")
        mail.add_attachment(file.data, maintype=main, subtype=sub or "octet-stream", filename=file.name)
    return mail


async def send_mail(mail: EmailMessage, server: Server, login: Login) -> None:
    """Hand a mail to the server."""
    try:
        async with _make_client(server, login) as client:
            await client.send_message(mail)
    except aiosmtplib.SMTPRecipientsRefused as error:
        [refused, *_] = error.recipients
        raise DeliveryError(str(refused), final=refused.code >= _PERMANENT) from error
    except (aiosmtplib.SMTPDataError, aiosmtplib.SMTPSenderRefused) as error:
        raise DeliveryError(str(error), final=error.code >= _PERMANENT) from error
    except (aiosmtplib.SMTPException, OSError) as error:
        raise explain(error, server, login, "SMTP") from error


async def check_login(server: Server, login: Login) -> None:
    """Log in, and send nothing."""
    try:
        async with _make_client(server, login):
            pass
    except (aiosmtplib.SMTPException, OSError) as error:
        raise explain(error, server, login, "SMTP") from error


def _make_client(server: Server, login: Login) -> aiosmtplib.SMTP:
    async def token() -> str:
        return login.token

    return aiosmtplib.SMTP(
        hostname=server.host,
        port=server.port,
        username=login.user,
        password=login.password or None,
        oauth_token_generator=token if login.token else None,
        use_tls=server.tls and not server.starttls,
        start_tls=server.tls and server.starttls,
        timeout=_TIMEOUT_S,
    )


def _read_place(delivery: Delivery) -> tuple[str, str]:
    """To whom it goes, and the first mail of its conversation. Never to others than who wrote."""
    to, _, root = delivery.thread.rpartition(" ")
    to = to or delivery.to or ""
    if not to:
        raise DeliveryError("The mail has no recipient", final=True)
    return to, root
