/** Thousandths of a CPU, and MiB (docs/catalog.md#sizes). */
export const sizes = {
  nano: { cpu: 250, memory: 256 },
  small: { cpu: 500, memory: 512 },
  medium: { cpu: 1000, memory: 1024 },
  large: { cpu: 2000, memory: 4096 },
};
