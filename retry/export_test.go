package retry

// Pattern0 is Pattern for an expression that is known to parse.
func Pattern0(re string) Matcher {
	m, err := Pattern(re)
	if err != nil {
		panic(err)
	}
	return m
}
