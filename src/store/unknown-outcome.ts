/**
 * A change may or may not have been made, and it could not be found out in time: the store went away while it committed,
 * and did not come back. Not a refusal: nobody may be told that nothing has happened.
 */
export class UnknownOutcomeError extends Error {
  override readonly name = "UnknownOutcomeError";
}
