export { loadDiskDriver } from "./native-sqlite.ts";
export { shrink } from "./shrink.ts";
export { prepareFolder, runSeed, smallestFirst } from "./world.ts";
