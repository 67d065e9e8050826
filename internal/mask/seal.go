package mask

import "strings"

// Mark says what was at one place of a masked text. It does not hold the
// secret: it names it.
type Mark struct {
	At     int    `json:"at"`               // byte offset of Hidden in the masked text
	Secret string `json:"secret,omitempty"` // its name; "" where the masked text was no single form of a secret
	Form   string `json:"form,omitempty"`   // how it was written there
}

// Seal is String, and says what was masked, so that Unseal can put it back
// where the secrets are known. It gives nil where nothing was.
func (m *Masker) Seal(s string) (string, []Mark) {
	if !m.Active() {
		return s, nil
	}
	from, to, ok := m.find(s, 0)
	if !ok {
		return s, nil
	}
	var b strings.Builder
	var marks []Mark
	done := 0
	for ok {
		b.WriteString(s[done:from])
		mark := Mark{At: b.Len()}
		for _, p := range m.patterns {
			if (p.read == exactly || p.read == wrapped) && p.text == s[from:to] {
				mark.Secret, mark.Form = p.from.secret, p.from.form
				break
			}
		}
		marks = append(marks, mark)
		b.WriteString(Hidden)
		done = to
		from, to, ok = m.find(s, done)
	}
	b.WriteString(s[done:])
	return b.String(), marks
}

// Unseal puts the secrets back into a text that Seal masked, with the values
// that they have now. ok is false where one of them is not known any more, or
// was masked in a form that cannot be made again; that one stays masked.
func (m *Masker) Unseal(s string, marks []Mark) (text string, ok bool) {
	ok = true
	var b strings.Builder
	done := 0
	for _, mark := range marks {
		if mark.At < done || !strings.HasPrefix(s[min(mark.At, len(s)):], Hidden) {
			return s, false // not the text that was sealed
		}
		b.WriteString(s[done:mark.At])
		done = mark.At + len(Hidden)
		v, known := "", false
		if m != nil {
			v, known = m.texts[source{mark.Secret, mark.Form}]
		}
		if !known {
			v, ok = Hidden, false
		}
		b.WriteString(v)
	}
	b.WriteString(s[done:])
	return b.String(), ok
}
