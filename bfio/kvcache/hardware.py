"""How many tokens a KV cache holds."""

from formulations.arrays import MAX_TOKENS, integer

#: Tokens of the published experiments (Llama2-70B on two A100 of 80 GB). It does not follow from
#: the numbers printed with it, so it stands here as a constant.
PUBLISHED_MEMORY = 16_492


def cache_bytes_per_token(
    layers: int, hidden_size: int, bytes_per_value: int, key_value_share: tuple[int, int] = (1, 1)
) -> int:
    """Return the bytes of keys and values per token, ``2·L·H·D``.

    Parameters
    ----------
    layers, hidden_size : int
        ``L`` and ``H`` of the transformer.
    bytes_per_value : int
        ``D``, 2 for half precision.
    key_value_share : (int, int)
        Key-value heads over query heads as a ratio, rounded up to whole bytes; (8, 64) for the
        grouped attention of Llama2-70B, which the published formula ignores.
    """
    heads, of = key_value_share
    for name, value in (
        ("layers", layers),
        ("hidden_size", hidden_size),
        ("bytes_per_value", bytes_per_value),
        ("key_value_share[0]", heads),
        ("key_value_share[1]", of),
    ):
        integer(value, name, minimum=1)
    return -(-2 * layers * hidden_size * bytes_per_value * heads // of)


def cache_tokens(device_bytes: int, model_bytes: int, bytes_per_token: int) -> int:
    """Return the whole tokens that fit beside the model; 0 if the model does not fit."""
    integer(device_bytes, "device_bytes", maximum=MAX_TOKENS**2)
    integer(model_bytes, "model_bytes", maximum=MAX_TOKENS**2)
    integer(bytes_per_token, "bytes_per_token", minimum=1)
    return max(0, device_bytes - model_bytes) // bytes_per_token
