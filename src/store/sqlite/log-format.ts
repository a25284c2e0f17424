/* Layout of SQLite's write-ahead log: https://sqlite.org/fileformat2.html#walformat. Numbers are big-endian. */

export const HEADER_BYTES = 32;
export const HEADER_SALTS = 16;
export const FRAME_HEADER_BYTES = 24;
/** Magic number of a log whose checksums are of big-endian words; that of little-endian words is one less. */
export const BIG_ENDIAN_MAGIC = 0x377f0683;

export function isLogMagic(number: number): boolean {
  return number === BIG_ENDIAN_MAGIC || number === BIG_ENDIAN_MAGIC - 1;
}
