// Contract tests of the store modules of parts. To delete a part, delete its lines here and its folders.
export { describeRefundsInBooks } from "./e2e/refunds-in-books.ts"; // of /parts/refunds/ and /parts/books/
export { describeRefundsInCallbacks } from "./e2e/refunds-in-callbacks.ts"; // of /parts/refunds/ and /parts/callbacks/
export { describeBooks } from "./parts/books/store/store-contract.ts";
export { describeCallbacks } from "./parts/callbacks/store/store-contract.ts";
export { describeQuotes } from "./parts/pricing-engine/store/store-contract.ts";
export { describeRefunds } from "./parts/refunds/store/store-contract.ts";
export { describeTransactions } from "./parts/transactions/store/store-contract.ts";
