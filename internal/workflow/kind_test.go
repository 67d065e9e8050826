package workflow

import "testing"

// TestKindsAreReadInOneWay: what a list may hold is not mixed with what is beside it.
func TestKindsAreReadInOneWay(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{"retry_on": "text or matcher, or a list of them", "env_files": "text or list of (text or env_file)", "step_validate": "text or list of text or step_validate"} {
		found := false
		for _, tab := range tables {
			if f, ok := tab.field(key); ok {
				found = true
				if got := f.typ.kind(); got != want {
					t.Errorf("%s is %q; want %q", key, got, want)
				}
			}
		}
		if !found {
			t.Errorf("there is no key %s", key)
		}
	}
}
