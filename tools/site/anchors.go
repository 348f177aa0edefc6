package main

import (
	"strconv"
	"strings"
	"unicode"
)

// anchors holds the anchors of a page.
type anchors map[string]bool

// add returns the anchor of a heading, as GitHub makes it: letters in lower case, digits, hyphens and underscores stay,
// and spaces become hyphens. A later heading of the same text gets a number.
func (a anchors) add(heading string) string {
	name := strings.Map(func(letter rune) rune {
		switch {
		case letter == ' ':
			return '-'
		case letter == '-' || unicode.In(letter, unicode.Letter, unicode.Mark, unicode.Nd, unicode.Pc):
			return unicode.ToLower(letter)
		}
		return -1
	}, strings.TrimSpace(heading))
	unique := name
	for count := 1; a[unique]; count++ {
		unique = name + "-" + strconv.Itoa(count)
	}
	a[unique] = true
	return unique
}
