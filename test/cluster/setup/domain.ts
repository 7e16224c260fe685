/** Of the platform's and the apps' names in tests. */
export const testDomain = "berth.test";
