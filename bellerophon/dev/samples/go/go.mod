module example.org/greeting

go 1.26.0
