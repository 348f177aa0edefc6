package top

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
)

// between separates two columns.
const between = "  "

// leastCell is the width below which no cell is shortened.
const leastCell = 8

// rows are the rows of a table. The first one is its head.
type rows [][]string

// aligned returns the rows as lines of at most width columns, where 0 is no limit. If the table is too wide, it leaves out columns with the heads of
// spare, the first ones first. Then it shortens the widest cells. It returns the heads that it leaves out.
func (r rows) aligned(width int, spare ...string) (lines, leftOut []string) {
	for _, row := range r {
		for i := range row {
			row[i] = screen.Clean(row[i])
		}
	}
	widths := r.widths()
	for _, head := range spare {
		if width == 0 || total(widths) <= width {
			break
		}
		at := slices.Index(r[0], head)
		if at < 0 {
			continue
		}
		for i := range r {
			r[i] = slices.Delete(slices.Clone(r[i]), at, at+1)
		}
		leftOut = append(leftOut, head)
		widths = r.widths()
	}
	for width > 0 && total(widths) > width {
		widest := 0
		for i := range widths {
			if widths[i] > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= leastCell {
			break
		}
		widths[widest]--
	}
	for _, row := range r {
		var line strings.Builder
		for i, cell := range row {
			cell = shortened(cell, widths[i])
			line.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)) + between)
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return lines, leftOut
}

// widths returns the width of each column.
func (r rows) widths() []int {
	widths := make([]int, len(r[0]))
	for _, row := range r {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

func total(widths []int) (sum int) {
	for _, width := range widths {
		sum += width
	}
	return sum + len(between)*(len(widths)-1)
}

// shortened cuts the middle out of a cell: names differ at their ends.
func shortened(cell string, width int) string {
	letters := []rune(cell)
	if len(letters) <= width {
		return cell
	}
	tail := (width - 1) / 2
	return string(letters[:width-1-tail]) + "…" + string(letters[len(letters)-tail:])
}
