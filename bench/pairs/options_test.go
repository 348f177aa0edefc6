package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOptionsOutOfRangeAreRefusedByName(t *testing.T) {
	valid := options{base: "main", change: "HEAD", pairs: 10, benchtime: time.Second, limit: time.Hour}
	if err := valid.validate(); err != nil {
		t.Fatal(err)
	}
	for want, alter := range map[string]func(*options){
		"--base":      func(o *options) { o.base = "" },
		"--change":    func(o *options) { o.change = "" },
		"--pairs":     func(o *options) { o.pairs = 9 },
		"--benchtime": func(o *options) { o.benchtime = 0 },
		"--limit":     func(o *options) { o.limit = time.Second },
		"--only":      func(o *options) { o.only = "(" },
	} {
		altered := valid
		alter(&altered)
		if err := altered.validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("validate() = %v, want an error about %s", err, want)
		}
	}
}

func TestProgramsAreSelectedByTheirNames(t *testing.T) {
	got, err := selectPrograms(programs, "operators,pipeline")
	if err != nil {
		t.Fatal(err)
	}
	var packages []string
	for _, program := range got {
		packages = append(packages, program.pkg)
	}
	if want := []string{"./operators", "./streams", "./bench/pipeline"}; !slices.Equal(packages, want) {
		t.Errorf("selectPrograms() = %v, want %v", packages, want)
	}
	for _, list := range []string{"", "core,", "cores", "core,core"} {
		if got, err := selectPrograms(programs, list); err == nil {
			t.Errorf("selectPrograms(%q) = %v, want an error", list, got)
		}
	}
}
