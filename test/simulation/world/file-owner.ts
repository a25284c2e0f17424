/* Takes the place of `src/store/sqlite/file-owner.ts`: a run's database belongs to its one gateway. */
export class FileOwner {
  readonly files: readonly [string, string, string];
  readonly wasMade = true;
  readonly isReplaced = false;
  readonly lastCallId = 0;

  static take(path: string): FileOwner {
    return new FileOwner(path);
  }

  constructor(path: string) {
    this.files = [path, `${path}-wal`, `${path}-owner`];
  }

  recordDatabase(): void {}

  reserve(): void {}

  release(): void {}
}

export function requireServedFile(): void {}
