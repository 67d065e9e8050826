package value

// InJSONString reports whether the end of the beginning of a JSON text lies in a string.
func InJSONString(beginning string) (in bool) {
	for i := 0; i < len(beginning); i++ {
		switch {
		case beginning[i] == '"':
			in = !in
		case beginning[i] == '\\' && in:
			i++
		}
	}
	return in
}

// JSONStringPart is a text as it is within the quotes of a JSON string.
func JSONStringPart(text string) string {
	s := JSON(text)
	return s[1 : len(s)-1]
}
