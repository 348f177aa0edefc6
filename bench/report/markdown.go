package report

import (
	_ "embed" // for the template
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/template"
)

//go:embed page/report.md.tmpl
var markdownText string

var markdown = template.Must(template.New("report.md").Funcs(template.FuncMap{"cell": cell}).Parse(markdownText))

// Markdown writes the summary as Markdown.
func (s Summary) Markdown(out io.Writer) error {
	if err := markdown.Execute(out, s); err != nil {
		return fmt.Errorf("write the report as Markdown: %w", err)
	}
	return nil
}

// Repeat returns the command that repeats the run into another folder. In the same folder it would
// resume this run.
func (s Summary) Repeat() string {
	arguments := []string{"go run ./bench run"}
	for _, flag := range s.Run.Flags {
		if strings.ContainsAny(flag, " '\"$\\*?[]();&|<>`") {
			flag = "'" + strings.ReplaceAll(flag, "'", `'\''`) + "'"
		}
		arguments = append(arguments, flag)
	}
	return strings.Join(append(arguments, "--out=bin/again"), " ")
}

// WrittenRatio returns the ratio with two decimals, or "" if there is none.
func (r Row) WrittenRatio() string { return writtenRatio(r.Ratio) }

func writtenRatio(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return strconv.FormatFloat(ratio, 'f', 2, 64)
}

// Rounds returns the number of rounds of a median, and how many of them are noisy.
func (r Row) Rounds() string {
	if r.Noisy == 0 {
		return strconv.Itoa(r.Measured.N)
	}
	return fmt.Sprintf("%d, %d noisy", r.Measured.N, r.Noisy)
}

// cell escapes a text for a cell of a Markdown table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", "", "<", `\<`).Replace(text)
}
