package engine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/bide-dev/bide/internal/action"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/workflow"
)

// SchemaError is a result that does not fit its schema.
type SchemaError struct{ Err error }

func (e *SchemaError) Error() string {
	return "the result does not fit expected_schema: " + e.Err.Error()
}

// Class is "validation".
func (e *SchemaError) Class() string { return "validation" }

// readSchema reads the JSON Schema of a validation out of its file, which is
// relative to the directory of the step.
func readSchema(p place, file *template.Text) (*jsonschema.Resolved, error) {
	name, err := file.Expand(p.scope)
	if err != nil {
		return nil, &action.InputError{Err: fmt.Errorf("expected_schema: %w", err)}
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(p.dir, name)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, &action.InputError{Err: fmt.Errorf("expected_schema: %w", err)}
	}
	schema, err := workflow.ReadSchema(text)
	if err != nil {
		return nil, &action.InputError{Err: fmt.Errorf("expected_schema: %s is no JSON Schema: %w", name, err)}
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
