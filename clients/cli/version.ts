/** The version of the package, which a test compares with package.json: reading that file takes longer than a start may. */
export const VERSION = "0.1.0";
