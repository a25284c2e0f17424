import pg from "pg";

/** To say goodbye, which takes a round trip. */
const END_MS = 3_000;

/**
 * A client whose connection ends in bounded time: the driver's waits for the server to hang up, and a server that
 * cannot be reached does not.
 */
export class BoundedClient extends pg.Client {
  override end(): Promise<void>;
  override end(callback: (error: Error) => void): void;
  override end(callback?: (error: Error) => void): Promise<void> | void {
    const timer = setTimeout(() => this.connection.stream.destroy(), END_MS);
    // As long as the connection is there, that keeps the process alive.
    timer.unref();
    this.once("end", () => clearTimeout(timer));
    return callback === undefined ? super.end() : super.end(callback);
  }
}
