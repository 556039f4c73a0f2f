"""Topics that are there for whoever looks: a creation is answered before brokers know of it."""

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from tests.support.waiting import until


def create_topic(admin: AdminClient, new: NewTopic) -> str:
    """The topic is there and each of its partitions is led; its name."""
    admin.create_topics([new])[new.topic].result(120)
    until(lambda: led(admin, new.topic) == new.num_partitions)
    return str(new.topic)


def add_partitions(admin: AdminClient, name: str, total: int) -> None:
    """The topic has so many partitions, and each is led."""
    admin.create_partitions([NewPartitions(name, total)])[name].result(120)
    until(lambda: led(admin, name) == total)


def create_again(admin: AdminClient, name: str, partitions: int = 2) -> None:
    """The topic is deleted, and another one of its name is there."""
    admin.delete_topics([name])[name].result(120)
    until(lambda: led(admin, name) == 0)
    until(lambda: _created(admin, NewTopic(name, partitions, 1)))  # until the old one is gone
    until(lambda: led(admin, name) == partitions)


def move_group(admin: AdminClient, group: str, at: KafkaPartition, seconds: float = 120) -> None:
    """The group, which has no members, has this offset, as somebody sets it by hand."""
    asked = [ConsumerGroupTopicPartitions(group, [at])]
    [answer] = admin.alter_consumer_group_offsets(asked).values()
    answer.result(seconds)


def led(admin: AdminClient, name: str) -> int:
    """How many partitions of the topic have a leader, as one broker knows it now."""
    found = admin.list_topics(name, timeout=120).topics[name]
    return sum(partition.leader >= 0 for partition in found.partitions.values())


def _created(admin: AdminClient, new: NewTopic) -> bool:
    try:
        admin.create_topics([new])[new.topic].result(120)
    except KafkaException:
        return False
    return True
