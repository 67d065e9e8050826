package retry

// Pattern0 is TextPattern for an expression that is known to parse.
func Pattern0(re string) Matcher {
	m, err := TextPattern(re)
	if err != nil {
		panic(err)
	}
	return m
}
