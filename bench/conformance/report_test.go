package conformance

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestWhatIsOnlyReportedIsNoFailureAndIsTold(t *testing.T) {
	report := &Report{Name: "pegasus", Version: "1"}
	report.add(check{number: "3.5", title: "A", required: ofOperators}, nil, nil, time.Second)
	report.add(check{number: "3.6", title: "B", required: ofNone}, errors.New("a donkey stayed"), nil, time.Second)
	if err := report.Err(); err != nil {
		t.Errorf("the error is %v, want none", err)
	}
	if failed := report.Failed(); !slices.Equal(failed, []string{"3.6"}) {
		t.Errorf("the checks %v failed, want 3.6", failed)
	}
	want := `     check  pegasus
3.5  A      ok 1.0s
3.6  B      not met

pegasus: 1
  not met 3.6 B: a donkey stayed
`
	if got := table(t, report); got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
}

func TestWhatIsRequiredIsAFailureOfTheContender(t *testing.T) {
	report := &Report{Name: "donkey"}
	report.add(check{number: "3.5", title: "A", required: ofOperators}, errors.New("a donkey stayed"), nil, time.Second)
	if err := report.Err(); err == nil || err.Error() != "3.5 A: a donkey stayed" {
		t.Errorf("the error is %v", err)
	}
	if got := table(t, report); !strings.Contains(got, "  FAILED 3.5 A: a donkey stayed\n") {
		t.Errorf("the failure is not in the table:\n%s", got)
	}
}

func table(t *testing.T, reports ...*Report) string {
	t.Helper()
	var out strings.Builder
	if err := WriteTable(&out, reports...); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
