/**
 * Returns how much a full test does: a part of it in each run of all tests, all of it where `JOBGATE_LONG_TESTS=1`, after a
 * change in what the test is about.
 */
export function howMany<Size>(part: Size, all: Size): Size {
  return process.env.JOBGATE_LONG_TESTS === "1" ? all : part;
}
