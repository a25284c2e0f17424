/** What the parts of this build show on the operator's page. */
export { VIEW as callbacks } from "../parts/callbacks/view/callbacks.tsx";
