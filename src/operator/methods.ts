import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import type { GatewayEvent } from "../core/events.ts";
import type {
  GetCallResponseSchema,
  GetTotalsResponseSchema,
  OperatorService,
  PaymentSchema,
  SearchKind,
  SearchResultSchema,
} from "../gen/jobgate/v1/operator_pb.ts";
import type { Routes } from "../http/routes.ts";
import type { CallDetails } from "../store/contract/operator-lists.ts";
import type { StoreTotals } from "../store/store.ts";

/** Methods of the operator's service. */
export type OperatorMethods = Partial<ServiceImpl<typeof OperatorService>>;

/** Methods and call details that a part adds to the operator's API. */
export interface ApiAddition {
  readonly methods: OperatorMethods;
  /** Reads the part's additions to the answer of GetCall. Reasons why the JobCall waits are joined with the reasons of other parts. */
  callDetails?(call: CallDetails): Promise<MessageInitShape<typeof GetCallResponseSchema>>;
  /** Reads the part's additions to payments, by call ID. */
  paymentDetails?(
    callIds: readonly number[],
  ): Promise<ReadonlyMap<number, MessageInitShape<typeof PaymentSchema>>>;
  /** Returns the part's additions to the answer of GetTotals. */
  totals?(totals: StoreTotals): MessageInitShape<typeof GetTotalsResponseSchema>;
  /** Returns events that the part adds to the end of a JobCall's timeline. */
  timeline?(callId: number): Promise<GatewayEvent[]>;
}

/** An entry that a part finds for the operator's search. */
export type FoundByPart = MessageInitShape<typeof SearchResultSchema> & { readonly kind: SearchKind };

/** Additions of a part to the operator's listener. */
export interface OperatorAddition {
  /**
   * Loads the part's additions to the API at the first call of the API, because its messages take 2 MB and a tenth of the
   * start-up time.
   */
  loadApi?(): Promise<ApiAddition>;
  /** Finds entries of the part that begin with a text, for the operator's search. @param limit most entries */
  search?(text: string, limit: number): Promise<readonly FoundByPart[]>;
  /** Routes that need the access of the API. */
  readonly routes?: Routes;
  /** Routes that need no token. */
  readonly files?: Routes;
}
