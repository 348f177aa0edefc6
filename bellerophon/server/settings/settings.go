// Package settings names the settings of a member that the operator takes from the specification of a hero.
package settings

import "strings"

// Names lists the flags that environment variables can set, which the operator takes from the specification.
var Names = []string{"election-timeout", "quota", "log-level", "log-format"}

// Variable returns the environment variable of a setting, such as BELLEROPHON_LOG_LEVEL.
func Variable(setting string) string {
	return "BELLEROPHON_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}
