import type { MethodDefinition } from "@grpc/grpc-js";
import { PricingEngine } from "../gen/pricing_engine/pricing_pb.ts";

type RawMethod = MethodDefinition<Buffer, Buffer>;

/** The pricing engine's methods with messages as they are on the wire, so that what is passed on stays what it was. */
export const RAW_ENGINE_METHODS = {
  getPrice: rawMethod(PricingEngine.method.getPrice.name),
  getJobPrice: rawMethod(PricingEngine.method.getJobPrice.name),
} satisfies Record<keyof typeof PricingEngine.method, RawMethod>;

export type EngineMethod = keyof typeof RAW_ENGINE_METHODS;

function rawMethod(name: string): RawMethod {
  return {
    path: `/${PricingEngine.typeName}/${name}`,
    requestStream: false,
    responseStream: false,
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  };
}

function asIs(message: Buffer): Buffer {
  return message;
}
