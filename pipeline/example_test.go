package pipeline_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/bide-dev/bide/pipeline"
)

// A Go function becomes a module by its name; its struct's fields are the
// parameters.
func ExampleAdd() {
	type Query struct {
		Text  string
		Limit int
	}
	type Hit struct {
		ID    int
		Title string
	}
	var modules pipeline.Registry
	err := pipeline.Add(&modules, "Search", func(_ context.Context, q Query) ([]Hit, error) {
		return []Hit{{1, strings.ToUpper(q.Text)}}, nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range modules.Modules() {
		fmt.Println(m.Name(), m.Params()[0].Name, m.Params()[1].Name, m.Result())
	}
	// Output: Search text limit List<{id: Int, title: String}>
}
