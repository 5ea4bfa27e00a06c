"""What a request cost, by the public list of prices."""

from decimal import Decimal

from genai_prices import Usage, calc_price
from pydantic_ai.usage import RequestUsage

_MICRO = Decimal(1_000_000)


def cost_microusd(usage: RequestUsage, *, model: str, base_url: str) -> int | None:
    """The price in millionths of a dollar, rounded; None where the list does not have the model.

    The address tells who sends the bill. What the settings call the provider does not: a server of one's own
    may go by any name.
    """
    used = Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
    )
    try:
        price = calc_price(used, model, provider_api_url=base_url)
    except LookupError:
        return None
    return round(price.total_price * _MICRO)
