module planted-go

go 1.22
