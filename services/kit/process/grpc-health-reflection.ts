import { createRegistry, type DescFile, type DescService, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code, type ConnectRouter } from "@connectrpc/connect";
import {
  Health,
  HealthCheckResponse_ServingStatus as Status,
} from "../../../proto/gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "../../../proto/gen/grpc/reflection/v1/reflection_pb.ts";

/** Registers gRPC health checking: SERVING while the process is ready, for the server and each of its services. */
export function registerHealth(
  router: ConnectRouter,
  services: DescService[],
  ready: () => Promise<boolean>,
): void {
  const names = services.map((service) => service.typeName);
  const check = async (service: string) => {
    if (service !== "" && !names.includes(service)) return { status: Status.SERVICE_UNKNOWN };
    return { status: (await ready()) ? Status.SERVING : Status.NOT_SERVING };
  };
  router.service(Health, {
    check: (req) => check(req.service),
    async *watch(req, ctx) {
      let last: number | undefined;
      while (!ctx.signal.aborted) {
        const now = await check(req.service);
        if (now.status !== last) yield now;
        last = now.status;
        await new Promise((resolve) => setTimeout(resolve, 1_000));
      }
    },
  });
}

/** Registers gRPC server reflection, so that clients such as grpcurl can list and call the methods. */
export function registerReflection(router: ConnectRouter, services: DescService[]): void {
  const all = new Map<string, DescFile>();
  const add = (file: DescFile) => {
    if (all.has(file.proto.name)) return;
    all.set(file.proto.name, file);
    file.dependencies.forEach(add);
  };
  for (const service of services) add(service.file);
  const registry = createRegistry(...all.values());
  const names = services.map((service) => ({ name: service.typeName }));
  const answer = (file: DescFile | undefined) => {
    if (!file) {
      const value = { errorCode: Code.NotFound, errorMessage: "not found" };
      return { messageResponse: { case: "errorResponse" as const, value } };
    }
    const value = { fileDescriptorProto: [toBinary(FileDescriptorProtoSchema, file.proto)] };
    return { messageResponse: { case: "fileDescriptorResponse" as const, value } };
  };
  router.service(ServerReflection, {
    async *serverReflectionInfo(requests) {
      for await (const request of requests) {
        const { case: kind, value } = request.messageRequest;
        const base = { validHost: request.host, originalRequest: request };
        if (kind === "listServices")
          yield { ...base, messageResponse: { case: "listServicesResponse", value: { service: names } } };
        else if (kind === "fileByFilename") yield { ...base, ...answer(all.get(value)) };
        else if (kind === "fileContainingSymbol") yield { ...base, ...answer(findFile(registry, value)) };
        else yield { ...base, ...answer(undefined) };
      }
    },
  });
}

/** Returns the file that declares a type, a service, or a member of one (`pkg.Service.Method`). */
function findFile(registry: ReturnType<typeof createRegistry>, symbol: string): DescFile | undefined {
  const found = registry.get(symbol) ?? registry.get(symbol.slice(0, symbol.lastIndexOf(".")));
  return found && "file" in found ? found.file : undefined;
}
