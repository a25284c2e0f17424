// Contract tests of the store modules of parts. To delete a part, delete its lines here and its folders.
export { describeChannelsInBooks } from "./e2e/channels-in-books.ts"; // of /parts/channels/ and /parts/books/
export { describeChannelsInCallbacks } from "./e2e/channels-in-callbacks.ts"; // of /parts/channels/ and /parts/callbacks/
export { describeRefundsInBooks } from "./e2e/refunds-in-books.ts"; // of /parts/refunds/ and /parts/books/
export { describeRefundsInCallbacks } from "./e2e/refunds-in-callbacks.ts"; // of /parts/refunds/ and /parts/callbacks/
export { describeRefundsInChannels } from "./e2e/refunds-in-channels.ts"; // of /parts/refunds/ and /parts/channels/
export { describeSumsInBooks } from "./e2e/sums-in-books.ts"; // of /parts/refunds/ and /parts/books/
export { describeTasks } from "./parts/a2a/store/store-contract.ts";
export { describeReservedJobs } from "./parts/apis/store/store-contract.ts";
export { describeBodies } from "./parts/bodies/store/store-contract.ts";
export { describeBooks } from "./parts/books/store/store-contract.ts";
export { describeCallbacks } from "./parts/callbacks/store/store-contract.ts";
export { describeChannels } from "./parts/channels/store/store-contract.ts";
export { describeFlow } from "./parts/flow/store/store-contract.ts";
export { describePauses } from "./parts/pausing/store/store-contract.ts";
export { describePaymentAlerts } from "./parts/payment-alerts/store/store-contract.ts";
export { describeQuotes } from "./parts/pricing-engine/store/store-contract.ts";
export { describeRefunds } from "./parts/refunds/store/store-contract.ts";
export { describeAcceptedCalls } from "./parts/resend/store/store-contract.ts";
export { describeSearch } from "./parts/search/store/store-contract.ts";
export { describeTransactions } from "./parts/transactions/store/store-contract.ts";
