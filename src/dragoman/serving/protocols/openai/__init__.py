"""The interface of OpenAI that servers of language models share: https://platform.openai.com/docs/api-reference.

`interface` has what all routes share, `generation_bodies` and `generation_answers` the parameters and answers of
`/v1/completions` and `/v1/chat/completions`, which `completions` answers. `embeddings` and `models` are routes, too.
"""

from dragoman.serving.protocols.openai import completions, embeddings, models

ROUTERS = (completions.router, embeddings.router, models.router)
