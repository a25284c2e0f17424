import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ListHeldKeysRequest } from "../../gen/jobgate/v1/operator_pb.ts";
import type { ApiAddition } from "../../operator/methods.ts";
import { pageSizeOf } from "../../operator/requests.ts";
import type { KeyLedger } from "./store/ledger.ts";

/** Adds the list of held keys to the operator's API. */
export function heldKeysOperation(ledger: Pick<KeyLedger, "listHeldKeys">): ApiAddition {
  return {
    methods: {
      async listHeldKeys(request: ListHeldKeysRequest) {
        const held = await ledger.listHeldKeys(pageSizeOf(request));
        const keys = held.map(({ owner: endpoint, key, callId, waiting, since }) => ({
          ...{ endpoint, key, callId: BigInt(callId), waiting: BigInt(waiting) },
          since: timestampFromMs(since),
        }));
        return { keys };
      },
    },
  };
}
