package reference

import (
	"fmt"
	"strings"

	"github.com/bide-dev/bide/internal/pipeline/stdlib"
)

// Functions is the page of the standard library of pipelines.
func Functions() string {
	var b strings.Builder
	b.WriteString(Made + `# Functions of pipelines

The standard library of the [pipeline language](../pipelines.md). A function is called by its full name, or by its simple name; where several
namespaces have the name, ` + "`use`" + ` says which is meant. A function marked *ours* is not in the original language.
`)
	namespace := ""
	for _, f := range stdlib.All() {
		if f.Namespace != namespace {
			namespace = f.Namespace
			fmt.Fprintf(&b, "\n## %s\n\n", namespace)
			Head(&b, "function", "signature", "what")
		}
		doc := f.Doc
		if f.Ours {
			doc += "; *ours*"
		}
		Row(&b, Code(f.Name), Code(f.Sig.String()), doc)
	}
	return b.String()
}
