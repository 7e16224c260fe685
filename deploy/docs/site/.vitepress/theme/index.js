import DefaultTheme from "vitepress/theme";
import "./contrast.css";
import MermaidDiagram from "./mermaid-diagram.vue";

export default {
  extends: DefaultTheme,
  enhanceApp: ({ app }) => app.component("MermaidDiagram", MermaidDiagram),
};
