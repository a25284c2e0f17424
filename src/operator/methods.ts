import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import { type GetCallResponseSchema, OperatorService } from "../gen/jobgate/v1/operator_pb.ts";
import type { RouteTable } from "../http/routes.ts";

/** Methods of the operator's service. */
export type OperatorMethods = Partial<ServiceImpl<typeof OperatorService>>;

/** Additions of a part to the operator's listener. */
export interface OperatorAddition {
  readonly methods?: OperatorMethods;
  /** Routes that need the access of the API. */
  readonly routes?: RouteTable;
  /** Routes that need no token. */
  readonly files?: RouteTable;
  /** Reads what the part adds to the answer of GetCall. */
  callDetails?(callId: number): Promise<MessageInitShape<typeof GetCallResponseSchema>>;
}

type Method = (request: unknown, context: HandlerContext) => unknown;

/** Makes one service of all methods. A method that nothing in this build has answers UNIMPLEMENTED. */
export function joinMethods(all: readonly OperatorMethods[]): ServiceImpl<typeof OperatorService> {
  const methods = OperatorService.methods.map(({ name, localName }) => {
    const owner = all.find((one) => localName in one) as Readonly<Record<string, Method>> | undefined;
    const absent = () => {
      throw new ConnectError(
        `This build of jobgate lacks the part that answers ${name}.`,
        Code.Unimplemented,
      );
    };
    const method: Method = (request, context) => owner?.[localName]?.(request, context) ?? absent();
    return [localName, method] as const;
  });
  return Object.fromEntries(methods) as unknown as ServiceImpl<typeof OperatorService>;
}
