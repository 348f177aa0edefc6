package main

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

func TestAJQProgramGivesOneValueAndChangesNothing(t *testing.T) {
	object := map[string]any{"n": int64(9007199254740993), "list": []any{"a", "b"}, "map": map[string]any{"k": "v"}}
	for program, want := range map[string]string{
		".n":                  "9007199254740993",
		".list[]":             `["a","b"]`,
		"empty":               "null",
		".map.k = 1 | .map":   `{"k":1}`,
		"{b: 1, a: .missing}": `{"a":null,"b":1}`,
	} {
		code, err := compileJQ(program)
		if err != nil {
			t.Fatal(err)
		}
		result, err := runJQ(t.Context(), code, object)
		if text, wrong := encoded(result); err != nil || wrong != nil || string(text) != want {
			t.Errorf("%s gives %s, want %s: %v, %v", program, text, want, err, wrong)
		}
	}
	if object["map"].(map[string]any)["k"] != "v" {
		t.Errorf("the object was changed: %v", object)
	}
}

func TestAnErrorOfJQQuotesNoValue(t *testing.T) {
	code, err := compileJQ(".data[]")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runJQ(t.Context(), code, map[string]any{"data": "canary"}); !errors.Is(err, errJQ) || strings.Contains(err.Error(), "canary") {
		t.Errorf("the error is %v", err)
	}
}

func TestAJQProgramThatNeverEndsIsStopped(t *testing.T) {
	code, err := compileJQ("range(infinite)")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		if _, err := runJQ(t.Context(), code, nil); err == nil || !strings.Contains(err.Error(), "more than 10000 results") {
			t.Errorf("the error is %v", err)
		}
	})
	endless, err := compileJQ("def f: f; f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runJQ(t.Context(), endless, nil); err == nil || !strings.Contains(err.Error(), "it ran for more than") {
		t.Errorf("the error is %v", err)
	}
}

func TestAScriptCannotReadTheEnvironmentByJQ(t *testing.T) {
	t.Setenv("CANARY_TOKEN", "secret")
	code, err := compileJQ("[env, $ENV]")
	if err != nil {
		t.Fatal(err)
	}
	result, err := runJQ(t.Context(), code, nil)
	if text, wrong := encoded(result); err != nil || wrong != nil || string(text) != "[{},{}]" {
		t.Errorf("the environment is %s: %v, %v", text, err, wrong)
	}
}
