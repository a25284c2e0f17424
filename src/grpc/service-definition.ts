import { type DescMethod, type DescService, fromBinary, type Message, toBinary } from "@bufbuild/protobuf";
import type { MethodDefinition, ServiceDefinition } from "@grpc/grpc-js";

/**
 * A protobuf-es service descriptor as a grpc-js service definition, for servers and clients alike.
 * Methods are named in lowerCamelCase. A `Buffer` in place of a response is taken to be encoded already and
 * goes out as it is.
 */
export function grpcServiceDefinition(service: DescService): ServiceDefinition {
  return Object.fromEntries(service.methods.map((method) => [method.localName, methodDefinition(method)]));
}

function methodDefinition(method: DescMethod): MethodDefinition<Message, Message | Buffer> {
  const { methodKind, input, output } = method;
  return {
    path: `/${method.parent.typeName}/${method.name}`,
    requestStream: methodKind === "client_streaming" || methodKind === "bidi_streaming",
    responseStream: methodKind === "server_streaming" || methodKind === "bidi_streaming",
    requestSerialize: (message) => Buffer.from(toBinary(input, message)),
    requestDeserialize: (bytes) => fromBinary(input, bytes),
    responseSerialize: (message) =>
      Buffer.isBuffer(message) ? message : Buffer.from(toBinary(output, message)),
    responseDeserialize: (bytes) => fromBinary(output, bytes),
  };
}
