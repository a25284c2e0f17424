import {
  create,
  createFileRegistry,
  type DescFile,
  type DescService,
  type FileRegistry,
  type MessageInitShape,
  toBinary,
} from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { type Server, type ServerDuplexStream, status } from "@grpc/grpc-js";
import {
  ServerReflection,
  type ServerReflectionRequest,
  type ServerReflectionResponse,
  ServerReflectionResponseSchema,
} from "../gen/grpc/reflection/v1/reflection_pb.ts";
import { grpcServiceDefinition } from "./service-definition.ts";

type Answer = NonNullable<MessageInitShape<typeof ServerReflectionResponseSchema>["messageResponse"]>;

/** The same service under the name that older clients call. */
const V1ALPHA = { ...ServerReflection, typeName: "grpc.reflection.v1alpha.ServerReflection" } as DescService;

/**
 * Serves `grpc.reflection.v1` and `v1alpha` for the given services and itself. The first call builds the registry,
 * because few servers ever receive a call of reflection.
 */
export function addReflection(server: Server, services: readonly DescService[]): void {
  const served = [...services, ServerReflection];
  let registry: FileRegistry | undefined;
  const serverReflectionInfo = (
    call: ServerDuplexStream<ServerReflectionRequest, ServerReflectionResponse>,
  ) => {
    registry ??= registryOf(served.flatMap((service) => withImports(service.file)));
    const files = registry;
    call.on("data", (request: ServerReflectionRequest) => {
      const messageResponse = answer(request, files, served);
      const { host: validHost } = request;
      call.write(
        create(ServerReflectionResponseSchema, { validHost, originalRequest: request, messageResponse }),
      );
    });
    call.on("end", () => call.end());
  };
  for (const service of [ServerReflection, V1ALPHA]) {
    server.addService(definitionOf(service), { serverReflectionInfo });
  }
}

function registryOf(files: readonly DescFile[]): FileRegistry {
  const byName = new Map(files.map(({ proto }) => [proto.name, proto]));
  return createFileRegistry(create(FileDescriptorSetSchema, { file: [...byName.values()] }));
}

function definitionOf(service: DescService) {
  const methods = ServerReflection.methods.map((method) => ({ ...method, parent: service }));
  return grpcServiceDefinition({ ...service, methods } as DescService);
}

function answer(
  { messageRequest: asked }: ServerReflectionRequest,
  registry: FileRegistry,
  services: readonly DescService[],
): Answer {
  switch (asked.case) {
    case "listServices": {
      const service = services.map(({ typeName: name }) => ({ name }));
      return { case: "listServicesResponse", value: { service } };
    }
    case "fileByFilename":
      return fileAnswer(registry.getFile(asked.value));
    case "fileContainingSymbol":
      return fileAnswer(fileOfSymbol(registry, asked.value));
    case "allExtensionNumbersOfType":
      return registry.getMessage(asked.value)
        ? { case: "allExtensionNumbersResponse", value: { baseTypeName: asked.value, extensionNumber: [] } }
        : errorAnswer(status.NOT_FOUND, "No such message.");
    case "fileContainingExtension":
      return errorAnswer(status.NOT_FOUND, "There are no extensions here.");
    case undefined:
      return errorAnswer(status.INVALID_ARGUMENT, "The request asks for nothing.");
  }
}

/** Finds a method, field or enum value through the type that declares it. */
function fileOfSymbol(registry: FileRegistry, symbol: string): DescFile | undefined {
  const parent = symbol.slice(0, Math.max(0, symbol.lastIndexOf(".")));
  return (registry.get(symbol) ?? registry.get(parent))?.file;
}

function fileAnswer(file: DescFile | undefined): Answer {
  if (file === undefined) return errorAnswer(status.NOT_FOUND, "No such file or symbol.");
  const fileDescriptorProto = withImports(file).map(({ proto }) =>
    toBinary(FileDescriptorProtoSchema, proto),
  );
  return { case: "fileDescriptorResponse", value: { fileDescriptorProto } };
}

function withImports(file: DescFile): DescFile[] {
  return [...new Set([...file.dependencies.flatMap(withImports), file])];
}

function errorAnswer(errorCode: number, errorMessage: string): Answer {
  return { case: "errorResponse", value: { errorCode, errorMessage } };
}
