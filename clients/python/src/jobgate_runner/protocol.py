"""Messages of runner.proto, in a pool of their own: a program may have generated the same ones."""

from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_pool = descriptor_pool.DescriptorPool()
_proto = files(__package__).joinpath("runner.binpb").read_bytes()
for _file in descriptor_pb2.FileDescriptorSet.FromString(_proto).file:
    _pool.AddSerializedFile(_file.SerializeToString())


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"jobgate.v1.{name}"))


RunnerMessage, GatewayMessage = _message("RunnerMessage"), _message("GatewayMessage")
Ack, Nack = _message("AckRequest.Ack"), _message("NackRequest.Nack")
WORK, LEASE_STATUS_DONE = "/jobgate.v1.RunnerService/Work", 1
