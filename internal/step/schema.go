package step

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/workflow"
)

// readSchema reads the JSON Schema of a validation out of its file, which is
// relative to the directory of the step.
func (x *Executor) readSchema(ctx context.Context, p Place, file *template.Text) (*jsonschema.Resolved, error) {
	name, err := file.Expand(x.View(ctx, &p))
	var text []byte
	if err == nil {
		text, err = x.Actions.Read(ctx, p.File(file, name))
	}
	if err != nil {
		return nil, inputError("expected_schema: %w", err)
	}
	schema, err := workflow.ReadSchema(text)
	if err != nil {
		return nil, inputError("expected_schema: %s is no JSON Schema: %w", name, err)
	}
	return schema, nil
}

// fits checks a JSON text against a schema of the workflow file.
func fits(schema *jsonschema.Resolved, text string) error {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return &SchemaError{fmt.Errorf("it is no JSON: %w", err)}
	}
	if err := schema.Validate(v); err != nil {
		return &SchemaError{err}
	}
	return nil
}
