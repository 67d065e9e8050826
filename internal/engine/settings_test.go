package engine

import (
	"encoding/json"
	"testing"

	"github.com/bide-dev/bide/internal/value"
)

// TestSettingsKeepNumbers: what a run is given goes through its record unchanged. As
// float64, an id above 2^53 would be another one after a resume.
func TestSettingsKeepNumbers(t *testing.T) {
	const text = `{"deep":[{"price":1.50}],"id":9007199254740993,"large":12345678901234567890}`
	given, err := value.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := json.Marshal(Settings{Inputs: given.(map[string]any), ParamFile: given.(map[string]any)})
	if err != nil {
		t.Fatal(err)
	}
	var s Settings
	if err := json.Unmarshal(recorded, &s); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]any{"inputs": map[string]any(s.Inputs), "param_file": map[string]any(s.ParamFile)} {
		if value.JSON(got) != text {
			t.Errorf("%s: %s, want %s", name, value.JSON(got), text)
		}
	}
}
