import { parseAbi } from "viem";

/** Events of EIP-3009, and ERC-20's Transfer. */
export const TOKEN_EVENTS = parseAbi([
  "event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)",
  "event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce)",
  "event Transfer(address indexed from, address indexed to, uint256 value)",
]);

/** The two events that use up a nonce, and what to filter them by. */
export const NONCE_EVENTS = [TOKEN_EVENTS[0], TOKEN_EVENTS[1]] as const;
