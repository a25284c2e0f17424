export { shrink } from "./shrink.ts";
export { prepareFolder, runSeed } from "./world.ts";
