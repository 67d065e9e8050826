package engine

import (
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
)

// SchemaError is a result that does not fit its schema.
type SchemaError struct{ Err error }

func (e *SchemaError) Error() string {
	return "the result does not fit expected_schema: " + e.Err.Error()
}

// Class is "validation".
func (e *SchemaError) Class() string { return "validation" }

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
