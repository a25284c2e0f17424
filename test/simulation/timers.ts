export { sleep as setTimeout } from "./tasks.ts";
