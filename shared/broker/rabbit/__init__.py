"""The broker on RabbitMQ, 3.10 and 4.x: the only door to aio_pika and aiormq.

`broker` puts it together of a `link` each to publish and to consume, a `publishing` channel, and consumers:
`consuming` keeps one `subscription` after another.
"""

from shared.broker.rabbit.broker import RabbitBroker
from shared.broker.rabbit.examining import Examined

__all__ = ["Examined", "RabbitBroker"]
