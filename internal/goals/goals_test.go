package goals

import (
	"os"
	"path/filepath"
	"testing"
)

type measured struct{ Rounds int }

func TestASliceGoesOnWithWhatTheLastOneMeasured(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	for want := range 3 {
		var is measured
		if err := Load(journal, &is); err != nil || is.Rounds != want {
			t.Fatalf("slice %d begins with %+v, %v", want, is, err)
		}
		is.Rounds++
		if err := Save(journal, is); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWithoutAJournalNothingIsKept(t *testing.T) {
	is := measured{Rounds: 3}
	if err := Save("", is); err != nil {
		t.Error(err)
	}
	if err := Load("", &is); err != nil || is.Rounds != 3 {
		t.Errorf("%+v, %v", is, err)
	}
}

func TestAJournalThatIsDamagedIsNotIgnored(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	if err := os.WriteFile(journal, []byte(`{"Rounds":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Load(journal, &measured{}); err == nil {
		t.Error("it is read")
	}
	if err := Save(filepath.Join(journal, "in a file"), measured{}); err == nil {
		t.Error("it is written where it cannot be")
	}
}

func TestALineSaysWhetherAGoalIsMet(t *testing.T) {
	if line := Line("a name", "3", "<= 4", true); line != "goal\ta name\t3\t<= 4\tmet\n" {
		t.Errorf("%q", line)
	}
	if line := Line("a name", "5", "<= 4", false); line != "goal\ta name\t5\t<= 4\tmissed\n" {
		t.Errorf("%q", line)
	}
}
