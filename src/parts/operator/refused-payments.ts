import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { closestWord } from "../../core/closest-word.ts";
import { ERROR_KINDS } from "../../core/errors.ts";
import type { ListRefusedPaymentsRequest } from "../../gen/jobgate/v1/operator_pb.ts";
import { invalid, readPage } from "../../operator/requests.ts";
import type { ListedRefusedPayment, RefusedPaymentLog } from "../../store/contract/refused-payments.ts";
import { readPayer } from "./requests.ts";

/** @throws ConnectError INVALID_ARGUMENT for a filter that nothing can match */
export async function listRefusedPayments(
  request: ListRefusedPaymentsRequest,
  log: Pick<RefusedPaymentLog, "listRefusedPayments">,
) {
  const { serviceId, jobIndex, code, requestId } = request;
  if (code !== "" && !Object.hasOwn(ERROR_KINDS, code)) {
    const known = Object.keys(ERROR_KINDS);
    const near = closestWord(code, known);
    const expected = near === undefined ? `expected one of ${known.join(", ")}.` : `did you mean "${near}"?`;
    throw invalid(`code: "${code}" is not an error code; ${expected}`);
  }
  const filter = {
    ...{ serviceId, jobIndex, payer: readPayer(request) },
    ...(code !== "" && { code }),
    ...(requestId !== "" && { requestId }),
  };
  const { items, nextPageToken } = await readPage(request, async (range) => ({
    items: await log.listRefusedPayments({ ...filter, ...range }),
  }));
  return { refusedPayments: items.map(toRefusedPayment), nextPageToken };
}

/** Most jobs, codes and reasons that one answer counts. */
const MAX_COUNTS = 100;

export async function countRefusedPayments(log: Pick<RefusedPaymentLog, "countRefusedPayments">) {
  const counts = await log.countRefusedPayments();
  return {
    counts: counts.slice(0, MAX_COUNTS).map(({ count, newestAt, ...of }) => ({
      ...of,
      count: BigInt(count),
      newestRefusedAt: timestampFromMs(newestAt),
    })),
    total: BigInt(counts.reduce((sum, { count }) => sum + count, 0)),
  };
}

function toRefusedPayment({ id, at, payment, ...refused }: ListedRefusedPayment) {
  return { ...refused, ...payment, id: BigInt(id), refusedAt: timestampFromMs(at) };
}
