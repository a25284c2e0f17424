/** How far from now the signed time of a request may be. */
export const DEFAULT_TOLERANCE_SECS = 300;
/** How long a delivery is remembered. */
export const DEFAULT_WINDOW_SECS = 86_400;
