import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Logger } from "pino";
import type {
  GetCallContentRequest,
  GetCallContentResponseSchema,
} from "../../gen/jobgate/v1/operator_pb.ts";
import type { ApiAddition } from "../../operator/methods.ts";
import { invalid, isCallId, notFound } from "../../operator/requests.ts";
import { NOT_KEPT } from "../../store/contract/call-lookup.ts";
import type { Store } from "../../store/store.ts";
import type { BodyLookup } from "./store/module.ts";

/** Most bytes of a body, and of a result, that are shown. */
const MAX_SHOWN_BYTES = 65_536;
const MAX_BY_LENGTH = 200;

interface Parts {
  readonly bodies: BodyLookup;
  readonly store: Pick<Store, "findResult" | "readResult" | "findCallDetails">;
  /** Returns true if the configuration in use lets operators see bodies. */
  readonly isAllowed: () => boolean;
  readonly logger: Logger;
}

/** Makes the method of the operator's API that shows a JobCall's body and result. */
export function bodyOperation({ bodies, store, isAllowed, logger }: Parts): ApiAddition {
  return {
    methods: {
      async getCallContent({ callId, by }: GetCallContentRequest) {
        if (!isAllowed())
          throw new ConnectError(
            "Bodies and results are not shown: set [operator] show_bodies = true to allow it.",
            Code.PermissionDenied,
          );
        if (by.length > MAX_BY_LENGTH) throw invalid(`by: expected at most ${MAX_BY_LENGTH} characters.`);
        const id = isCallId(callId) ? Number(callId) : 0;
        const [call, body, result] = await Promise.all([
          store.findCallDetails(id),
          bodies.findBody(id, MAX_SHOWN_BYTES),
          readResult(id, store),
        ]);
        if (call === undefined) throw notFound("call", callId);
        logger.info({ callId: id, ...(by !== "" && { by }) }, "body and result of a call shown");
        return { ...(body && { body: body.bytes, bodyBytes: BigInt(body.size) }), ...result };
      },
    },
  };
}

/** Reads the beginning of a result; nothing of a deleted result. */
async function readResult(
  callId: number,
  store: Pick<Store, "findResult" | "readResult">,
): Promise<MessageInitShape<typeof GetCallContentResponseSchema>> {
  const found = await store.findResult(callId);
  if (found === undefined || found === NOT_KEPT) return {};
  const { size, body, contentType, status = 0, headers = [] } = found;
  const result = body ?? (await store.readResult(callId, 0, MAX_SHOWN_BYTES));
  return {
    ...(result && { result: result.subarray(0, MAX_SHOWN_BYTES) }),
    ...{ resultBytes: BigInt(size), contentType, status },
    headers: headers.map(([name, value]) => ({ name, value })),
  };
}
